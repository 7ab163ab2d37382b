"""The command line: what each command prints, where colours are, and every message of an error.

Most tests call `main` in this process; two start one, to see a pipe and the exit status.
"""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tograph as tg
from tograph import cli, highlight
from tograph.runtime.passes import PASSES

ROOT = Path(__file__).parent.parent
NEWTON = str(ROOT / "samples" / "newton.py")
ESCAPE = re.compile(r"\033\[\d*m")

USER_FILE = """
import dataclasses
import torch
import tograph as tg

FACTOR = 3
VALUE = 7

def plain(x, y=1):
    if x.sum() > 0:
        x = x * y
    return x

def nothing():
    return torch.ones(2)

@tg.function(input_signature=[tg.TensorSpec([None], torch.float32)])
def signed(x):
    return x + 1

@tg.function
def traced(x):
    return x - 1

traced(torch.ones(2))
traced(torch.ones(3))

@dataclasses.dataclass
class Model:
    scale: float = 2.0

    @tg.function
    def step(self, x):
        return x * self.scale

model = Model()

def broken(x):
    raise ValueError("bad\\nsecond line")

def generator(x):
    yield x

@tg.function
def out_of_range(x, i):
    while i < 10:
        i = i + 1
    return x[i]
"""


@pytest.fixture
def user_file(tmp_path):
    path = tmp_path / "user_file.py"
    path.write_text(USER_FILE)
    return str(path)


@pytest.fixture
def tograph(capsys):
    """Runs a command line that must succeed, and gives what it prints."""

    def run(*argv):
        status = cli.main(list(argv))
        printed = capsys.readouterr()
        assert (status, printed.err) == (0, "")
        return printed.out

    return run


@pytest.fixture
def failure(capsys):
    """Runs a command line that must fail with status 1, and gives the one line of its message."""

    def run(*argv):
        assert cli.main(list(argv)) == 1
        printed = capsys.readouterr()
        assert printed.err.startswith("error: ") and printed.err.count("\n") == 1
        return printed.err.removeprefix("error: ").rstrip("\n")

    return run


@pytest.fixture
def usage(capsys):
    """Runs a wrong command line, and gives the last line of its message."""

    def run(*argv):
        with pytest.raises(SystemExit) as stop:
            cli.main(list(argv))
        assert stop.value.code == 2
        return capsys.readouterr().err.splitlines()[-1]

    return run


# --- dump


def test_code_is_the_default_stage(tograph):
    shown = tograph("dump", f"{NEWTON}:newton")
    assert shown == tograph("dump", f"{NEWTON}:newton", "--stage", "code")
    assert shown.startswith("def newton(x, tolerance):\n")
    assert "ag__.while_stmt(" in shown
    compile(shown, "shown", "exec")


def test_graph_of_a_sample_reads_back(tograph):
    shown = tograph("dump", f"{NEWTON}:newton", "--stage", "graph")
    assert shown.startswith("newton(%x: f64[], %tolerance: f64[]) {\n")
    assert "While(" in shown and "If(" in shown
    assert str(tg.parse_graph(shown)).strip() == shown.strip()


def test_host_of_a_sample_is_python(tograph):
    shown = tograph("dump", f"{NEWTON}:newton", "--stage", "host")
    assert shown.startswith("def newton(x, tolerance):\n")
    assert "while True:" in shown
    compile(shown, "shown", "exec")


def test_passes_of_a_sample(tograph):
    shown = tograph("dump", f"{NEWTON}:newton", "--stage", "passes")
    heads = [line for line in shown.splitlines() if line.startswith("#")]
    assert heads[0].startswith("# as traced, ")
    assert any(line.startswith("# after fold, ") for line in heads)
    assert "inline" in heads[-1] and heads[-1].startswith("# no change by: ")
    every = tograph("dump", f"{NEWTON}:newton", "--all")
    names = [
        line.split()[2].rstrip(",") for line in every.splitlines() if line.startswith("# after")
    ]
    assert names == [step.name for step in PASSES]
    last = every[every.rindex("\nnewton(") :]
    assert str(tg.parse_graph(last)).strip() == last.strip()


def graph(tograph, target, *options):
    return tograph("dump", target, "--stage", "graph", *options)


def test_traces_made_by_the_file_are_shown(tograph, user_file):
    shown = graph(tograph, f"{user_file}:traced")
    assert "%x: f32[2]" in shown and "\n\n" in shown and "%x: f32[3]" in shown


def test_given_inputs_come_before_traces_of_the_file(tograph, user_file):
    shown = graph(tograph, f"{user_file}:traced", "--args", "torch.ones(5)")
    assert "%x: f32[5]" in shown and "f32[2]" not in shown


def test_input_signature_is_enough(tograph, user_file):
    assert graph(tograph, f"{user_file}:signed").startswith("signed(%x: f32[")


def test_no_parameters_need_no_inputs(tograph, user_file):
    assert graph(tograph, f"{user_file}:nothing").startswith("nothing()")


def test_plain_function_with_arguments_of_its_file(tograph, user_file):
    shown = graph(tograph, f"{user_file}:plain", "--args", "torch.ones(FACTOR), y=2")
    assert shown.startswith("plain(%x: f32[3])") and "If(" in shown


@pytest.mark.parametrize(
    ("name", "args"),
    [("Model.step", "Model(3.0), torch.ones(2)"), ("model.step", "torch.ones(2)")],
)
def test_dotted_name(tograph, user_file, name, args):
    target = f"{user_file}:{name}"
    assert tograph("dump", target).startswith("def step(self, x):")
    assert "mul" in graph(tograph, target, "--args", args)


# --- run


def test_run_a_file(tograph):
    assert tograph("run", NEWTON).startswith("root 2.094551481542 after ")


def test_run_a_function_on_example_inputs(tograph):
    assert tograph("run", f"{NEWTON}:newton").startswith("(tensor(2.0946, dtype=torch.float64), ")


def test_run_a_function_on_given_inputs(tograph, user_file):
    assert (
        tograph("run", f"{user_file}:plain", "--args", "torch.ones(2), 4") == "tensor([4., 4.])\n"
    )
    assert tograph("run", f"{user_file}:nothing") == "tensor([1., 1.])\n"


def test_one_example_input_needs_no_tuple(tograph, tmp_path):
    path = tmp_path / "one.py"
    path.write_text("def f(x):\n    return x + 1\n\ndef example_inputs():\n    return 4\n")
    assert tograph("run", f"{path}:f") == "5\n"


def test_file_sees_its_neighbours_and_its_name(tograph, tmp_path):
    (tmp_path / "cli_neighbour.py").write_text("VALUE = 5\n")
    path = tmp_path / "main_file.py"
    body = "import sys\nimport cli_neighbour\ndef f():\n    return cli_neighbour.VALUE, __name__\n"
    path.write_text(body + "if __name__ == '__main__':\n    print(f(), sys.argv)\n")
    before = sys.path[:], sys.argv[:]
    try:
        assert tograph("run", str(path)) == f"(5, '__main__') {[str(path)]}\n"
        assert tograph("run", f"{path}:f") == "(5, 'main_file')\n"
    finally:
        sys.modules.pop("cli_neighbour", None)
    assert (sys.path, sys.argv) == before
    assert "main_file" not in sys.modules


def test_file_named_like_a_loaded_module_leaves_it_alone(tograph, tmp_path):
    path = tmp_path / "torch.py"
    path.write_text("def f():\n    return __name__\n")
    assert tograph("run", f"{path}:f") == "__tograph_torch__\n"
    assert sys.modules["torch"] is torch


# --- explain and report


def test_explain_says_line_by_line_what_was_staged(tograph):
    shown = tograph("explain", f"{NEWTON}:newton")
    assert shown.startswith("newton  ")
    found = re.findall(r"^ *(graph|python|not reached) +(\d+) \|", shown, re.MULTILINE)
    rows = {int(number): kind for kind, number in found}
    lines = Path(NEWTON).read_text().splitlines()
    line = lambda text: next(
        n for n, found in enumerate(lines, 1) if found.strip().startswith(text)
    )
    assert rows[line("steps = 0")] == "python"
    assert rows[line("while torch.abs")] == "graph"
    assert rows[line("x = x - y / slope")] == "graph"
    assert rows[line("return 3 * x")] == "graph"
    assert "While: the condition is a tensor; state: steps, x, y" in shown
    assert "calls derivative" in shown and "2 nodes: div, sub" in shown


def test_explain_tells_python_branches_and_what_was_not_reached(tograph, user_file):
    source = "def f(x, n):\n    if n > 1:\n        x = x + 1\n    else:\n        x = x - 1\n    for i in range(2):\n        x = x * 2\n    return x\n"
    Path(user_file).write_text(source)
    shown = tograph("explain", f"{user_file}:f", "--args", "torch.ones(2), 3")
    assert "Python `if`: the condition is True, known while tracing" in shown
    assert re.search(r"not reached +5 \| +x = x - 1", shown)
    assert "Python `for`, unrolled: it iterates over a Python range" in shown
    assert "2 nodes: mul (2)" in shown


def test_explain_in_colours(tograph):
    coloured = tograph("explain", f"{NEWTON}:newton", "--color", "always")
    assert ESCAPE.sub("", coloured) == tograph("explain", f"{NEWTON}:newton")
    assert "\033[32mgraph\033[0m" in coloured


def test_report_of_a_sample(tograph, tmp_path):
    page = tmp_path / "out.html"
    assert (
        tograph("report", f"{NEWTON}:newton", "-o", str(page)) == f"{page}: open it in a browser\n"
    )
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "{{" not in text
    assert '"timed":true' in text and '"kind":"graph"' in text and "trace 1: first call" in text


# --- colours


@pytest.mark.parametrize("stage", cli.STAGES)
def test_colours_on_demand_only(tograph, stage):
    command = ("dump", f"{NEWTON}:newton", "--stage", stage)
    plain = tograph(*command)
    assert plain == tograph(*command, "--color", "never")
    coloured = tograph(*command, "--color", "always")
    assert "\033" not in plain and "\033[35m" in coloured
    assert ESCAPE.sub("", coloured) == plain


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("choice", "variables", "expected"),
    [
        ("auto", {}, True),
        ("auto", {"NO_COLOR": "1"}, False),
        ("auto", {"NO_COLOR": ""}, True),
        ("auto", {"TERM": "dumb"}, False),
        ("never", {}, False),
        ("always", {"NO_COLOR": "1"}, True),
    ],
)
def test_colours_in_a_terminal(monkeypatch, choice, variables, expected):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert bool(cli.wants_colour(choice)) is expected


def styles(coloured):
    """The coloured pieces of a text, each after its style."""
    names = {code: style for style, code in highlight.STYLES.items()}
    return [
        (names[code], text) for code, text in re.findall(r"\033\[(\d+)m(.*?)\033\[0m", coloured)
    ]


def test_python_highlighter():
    shown = styles(highlight.highlight_python("if x1 == 1.5:  # one\n    y = 'a'\n"))
    assert shown == [("keyword", "if"), ("number", "1.5"), ("comment", "# one"), ("string", "'a'")]


@pytest.mark.parametrize(
    "source",
    [
        'x = f"a{b!r:>{n}}{{c}}"',
        '"""a\nb"""\n',
        "x = (",
        "é = 'ü'  # ä",
        "x = '\u2028\x0c' + 'b'\ny = 1",
    ],
)
def test_python_highlighter_keeps_the_text(source):
    assert ESCAPE.sub("", highlight.highlight_python(source)) == source


def test_python_highlighter_counts_lines_as_python_does():
    source = "x = '\u2028\x0c'\ny = 12\n"
    assert styles(highlight.highlight_python(source))[-1] == ("number", "12")


def test_graph_highlighter():
    line = "%12: f32[4] = While(%3, -1e-3, 'cond #') ^%7  # a.py:3"
    expected = [("number", "4"), ("keyword", "While"), ("number", "-1e-3"), ("string", "'cond #'")]
    assert styles(highlight.highlight_graph(line)) == [*expected, ("comment", "# a.py:3")]


# --- errors


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["dmp", "x.py:f"], "tograph: error: no command 'dmp'; did you mean 'dump'?"),
        (["zzz"], "tograph: error: no command 'zzz'; commands: bench, dump, explain, report, run"),
        (["dump", "x:f", "--stage", "grap"], "no stage 'grap'; did you mean 'graph'?"),
        (
            ["dump", "x:f", "--stage", "9"],
            "no stage '9'; stages: code, graph, host, kernels, passes, plan",
        ),
        (["dump", "x:f", "--color", "alway"], "no color 'alway'; did you mean 'always'?"),
        (["dump"], "the following arguments are required: FILE.py:fn"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_wrong_command_line(usage, argv, message):
    assert usage(*argv).endswith(message)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["dump", "{}:plian"], "{} has no function 'plian'; did you mean 'plain'?"),
        (["run", "{}:Model.stp"], "{}.Model has no function 'stp'; did you mean 'step'?"),
        (["run", "{}:plain.zzz"], "{}.plain has no function 'zzz'; there are no functions in it"),
        (["dump", "{}:VALUE"], "'VALUE' in {} cannot be called: it is of type int, not a function"),
        (["run", "{}", "--args", "1"], "--args needs a function to call: write {}:NAME"),
        (["run", "{}:plain", "--args", "1)"], "--args: unmatched ')' in '1)'"),
        (["run", "{}:plain", "--args", "who"], "--args:1: NameError: name 'who' is not defined"),
        (
            ["run", "{}:plain", "--args", ""],
            "--args does not fit plain(x, y=1): missing a required argument: 'x'; "
            'give its inputs with --args "torch.ones(3), 2"',
        ),
        (
            ["dump", "{}:plain", "--stage", "graph"],
            'plain(x, y=1) needs inputs: give its inputs with --args "torch.ones(3), 2", '
            "or define example_inputs() in its file",
        ),
        (["run", "{}:broken", "--args", "1"], "{}:39: ValueError: bad"),
        (
            ["dump", "{}:broken", "--stage", "host", "--args", "torch.ones(1)"],
            "{}:39: ValueError: bad",
        ),
        (
            ["dump", "{}:Model"],
            "NotAFunctionError: <class 'user_file.Model'> is not a Python function",
        ),
    ],
)
def test_wrong_function_or_inputs(failure, user_file, argv, message):
    assert failure(*(word.format(user_file) for word in argv)) == message.format(user_file)


def test_report_that_cannot_be_written(failure, tmp_path):
    target = str(tmp_path / "no_such_folder" / "out.html")
    message = failure("report", f"{NEWTON}:newton", "-o", target)
    assert message == f"cannot write {target}: No such file or directory"


def test_report_of_a_function_that_cannot_be_called(failure, user_file):
    message = failure("report", f"{user_file}:plain")
    assert message.startswith("plain(x, y=1) needs inputs: give its inputs with --args")


def test_function_name_is_missing(failure, user_file):
    names = "plain, nothing, signed, traced, Model, broken, generator, out_of_range"
    message = f"which function? write {user_file}:NAME; functions in it: {names}"
    assert failure("dump", user_file) == message


def test_example_inputs_do_not_fit(failure):
    message = failure("dump", f"{NEWTON}:f", "--stage", "graph")
    assert message.startswith("example_inputs() does not fit f(x): too many positional arguments; ")


def test_function_that_cannot_be_converted(failure, user_file):
    message = failure("dump", f"{user_file}:generator", "--stage", "graph", "--args", "1")
    assert message.startswith(f"{user_file}:41: ConversionError: 'generator' is a generator")


def test_error_in_a_graph_names_the_line_of_its_op(failure, user_file):
    args = "torch.ones(3), torch.tensor(0)"
    message = failure("run", f"{user_file}:out_of_range", "--args", args)
    assert re.match(re.escape(user_file) + r":\d+: IndexError: ", message)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\nx = (\n", "{}:2: SyntaxError: '(' was never closed"),
        ("def f():\n    1 / 0\nf()\n", "{}:2: ZeroDivisionError: division by zero"),
        ("raise RuntimeError\n", "{}:1: RuntimeError"),
        ("\0", "{}:1: SyntaxError: source code string cannot contain null bytes"),
        ("import no_such_module\n", "{}:1: ModuleNotFoundError: No module named 'no_such_module'"),
        (
            "import sys\nsys.exit(3)\n",
            "{} exited while it was imported: put its main part under `if __name__ == '__main__':`",
        ),
    ],
)
def test_file_that_cannot_be_imported(failure, tmp_path, source, message):
    path = tmp_path / "bad_file.py"
    path.write_text(source)
    assert failure("dump", f"{path}:f") == message.format(path)
    assert "bad_file" not in sys.modules


def test_file_that_fails_as_main(failure, tmp_path):
    path = tmp_path / "bad_main.py"
    path.write_text("\nint('x')\n")
    message = "ValueError: invalid literal for int() with base 10: 'x'"
    assert failure("run", str(path)) == f"{path}:2: {message}"


def test_file_that_is_not_there(failure, tmp_path):
    (tmp_path / "newton.py").write_text("")
    message = failure("run", str(tmp_path / "newtn.py"))
    assert message == f"no file '{tmp_path}/newtn.py'; did you mean '{tmp_path}/newton.py'?"
    assert failure("dump", f"{tmp_path}:f") == f"{tmp_path} is a directory, not a Python file"
    assert failure("dump", ":f") == "which file? write FILE.py:NAME"
    (tmp_path / "newton.py").unlink()
    assert failure("run", str(tmp_path / "x.py")).endswith("; there are no Python files there")


def test_files_inside_the_current_folder_are_named_from_there(failure, tmp_path, monkeypatch):
    (tmp_path / "bad.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    assert failure("run", "bad.py") == "bad.py:1: ZeroDivisionError: division by zero"


def test_traceback_on_demand(capsys, user_file):
    assert cli.main(["run", f"{user_file}:broken", "--args", "1", "--traceback"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback (most recent call last)" in shown
    assert 'raise ValueError("bad\\nsecond line")' in shown
    assert shown.endswith(f"error: {user_file}:39: ValueError: bad\n")


# --- help and version


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--help"], ["dump", "run", "examples:", "--args", "NO_COLOR"]),
        (["dump", "--help"], ["FILE.py:fn", "the traced graph", "--traceback", "--color"]),
        (["run", "--help"], ["FILE.py[:fn]", "--args", "--traceback"]),
        (["--version"], [tg.__version__, torch.__version__]),
    ],
)
def test_help_and_version(capsys, argv, words):
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    assert stop.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert [word for word in words if word not in shown] == []


def test_splitting_of_targets():
    assert cli.split_target("a.py:f.g") == ("a.py", "f.g")
    assert cli.split_target("a.py") == ("a.py", "")
    assert cli.split_target(r"C:\a.py") == (r"C:\a.py", "")
    assert cli.split_target(r"C:\a.py:f") == (r"C:\a.py", "f")


# --- as a process


def process(*argv):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tograph", *argv]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_pipe_has_no_escape_codes():
    done = process("dump", f"{NEWTON}:newton", "--stage", "graph")
    assert done.returncode == 0, done.stderr
    assert "While(" in done.stdout and "\033" not in done.stdout


def test_exit_status_of_an_error():
    done = process("dump", f"{NEWTON}:newtn")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {NEWTON} has no function 'newtn'; did you mean 'newton'?\n"


def test_what_loops_go_over_is_named_and_an_input_signature_takes_numbers(tmp_path, capsys):
    file = tmp_path / "loops.py"
    file.write_text(
        "import torch, tograph as tg\n"
        "LAYERS = torch.nn.ModuleList([torch.nn.Linear(2, 2)])\n"
        "@tg.function(input_signature=[tg.TensorSpec([2], torch.float32), tg.TensorSpec([], torch.int64)])\n"
        "def f(x, n):\n"
        "    for layer in LAYERS:\n"
        "        x = layer(x)\n"
        "    for k in {'a': 1}:\n"
        "        x = x + n\n"
        "    for i, k in enumerate([1, 2]):\n"
        "        x = x + i\n"
        "    return x\n"
    )
    given = [f"{file}:f", "--args", "[1.0, 2.0], 3"]
    assert cli.main(["explain", *given]) == 0
    shown = capsys.readouterr().out
    for name in ("ModuleList", "dict", "enumerate"):
        assert f"iterates over a Python {name}" in shown
    assert cli.main(["report", *given, "-o", str(tmp_path / "out.html")]) == 0
