/* A driver of CUDA 13.0 that notes what it is called with: for the bindings, which look its functions up. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef void *P;
typedef struct { int type; int reserved0[3]; union { long long reserved1[29]; struct { uint64_t handle; int type; unsigned size; P *graphs; P ctx; } conditional; }; long long reserved2; } Node;
typedef struct { P func; unsigned grid[3], block[3], shared; P *params; P *extra; P kern; P ctx; } Kernel;
static P bodies[4] = {(P)101, (P)102, (P)103, (P)104}, before[2] = {(P)21, (P)22}, made = (P)23;
static uint64_t first = 7, second = 8;
static P params[2] = {&first, &second};

__attribute__((constructor)) static void unbuffered(void) { setvbuf(stdout, 0, _IONBF, 0); }

int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuCtxGetCurrent(P *c) { *c = (P)5; return 0; }
int cuStreamCreate(P *s, unsigned flags) { printf("stream %u\n", flags); *s = (P)64; return 0; }
int cuGraphLaunch(P exec, P stream) { printf("launched %ld on %ld\n", (long)exec, (long)stream); return 0; }
int cuModuleLoadData(P *m, const char *image) { printf("load %s\n", image); *m = (P)6; return 0; }
int cuModuleGetFunction(P *f, P m, const char *name) { printf("function %ld %s\n", (long)m, name); *f = (P)9; return 0; }
int cuFuncLoad(P f) { printf("finish %ld\n", (long)f); return 0; }
int cuLaunchKernel(P f, unsigned a, unsigned b, unsigned c, unsigned x, unsigned y, unsigned z, unsigned shared, P stream, P *values, P *extra) {
  printf("launch %ld %u,%u,%u %u,%u,%u %u on %ld: %ld %ld, %ld\n", (long)f, a, b, c, x, y, z, shared, (long)stream, *(long *)values[0], *(long *)values[1], (long)extra); return 0; }
int cuStreamGetCaptureInfo(P s, int *status, uint64_t *id, P *graph, P **deps, P *edges, size_t *n) {
  *status = 1; *id = 3; *graph = (P)11; *deps = before; static uint64_t plain[2]; if (edges) *edges = plain; *n = (long)s == 4 ? 1 : 2; return 0; }
int cuGraphConditionalHandleCreate(uint64_t *h, P g, P ctx, unsigned value, unsigned flags) {
  printf("handle %ld %ld %u %u\n", (long)g, (long)ctx, value, flags); *h = 77; return 0; }
int cuGraphAddNode(P *node, P g, P *deps, P edges, size_t n, Node *p) {
  printf("node %ld %ld %ld edges %ld count %zu type %d: %lu %d %u %ld\n", (long)g, (long)deps[0], (long)deps[n - 1], (long)edges, n, p->type,
         p->conditional.handle, p->conditional.type, p->conditional.size, (long)p->conditional.ctx);
  p->conditional.graphs = bodies; *node = made; return 0; }
int cuStreamUpdateCaptureDependencies(P s, P *deps, P edges, size_t n, unsigned flags) {
  printf("after %ld %ld %ld %zu %u\n", (long)s, (long)deps[0], (long)edges, n, flags); return 0; }
int cuStreamBeginCaptureToGraph(P s, P g, P *deps, P edges, size_t n, int mode) { printf("body %ld %ld %zu %d\n", (long)s, (long)g, n, mode); return 0; }
int cuStreamEndCapture(P s, P *g) { *g = (P)11; return 0; }
int cuGraphGetNodes(P g, P *nodes, size_t *n) { if (nodes) memcpy(nodes, before, 2 * sizeof(P)); *n = 2; return 0; }
int cuGraphNodeGetType(P n, int *type) { *type = (long)n == 21 ? 0 : 13; return 0; }
int cuFuncGetParamInfo(P f, size_t k, size_t *offset, size_t *size) { if (k > 1) return 1; *offset = 8 * k; *size = 8; return 0; }
int cuGraphKernelNodeGetParams(P n, Kernel *k) { memset(k, 0, sizeof *k); k->func = (P)9; k->grid[0] = 2; k->params = params; return 0; }
int cuGraphExecKernelNodeSetParams(P exec, P n, Kernel *k) {
  printf("told %ld %ld: %ld %u: %ld %ld\n", (long)exec, (long)n, (long)k->func, k->grid[0], *(long *)k->params[0], *(long *)k->params[1]); return 0; }

/* As bindings of CUDA 12 know them: without data of edges. */
int capture_before_12_3(P s, int *status, uint64_t *id, P *graph, P **deps, size_t *n) { return cuStreamGetCaptureInfo(s, status, id, graph, deps, 0, n); }
int node_before_12_3(P *node, P g, P *deps, size_t n, Node *p) { return cuGraphAddNode(node, g, deps, 0, n, p); }
int update_before_12_3(P s, P *deps, size_t n, unsigned flags) { return cuStreamUpdateCaptureDependencies(s, deps, 0, n, flags); }

#define BEFORE(name, older) if (version < 12030 && !strcmp(symbol, #name)) { *at = (P)older; if (status) *status = 0; return 0; }
#define KNOWN(name) if (!strcmp(symbol, #name)) { *at = (P)name; if (status) *status = 0; return 0; }
int cuGetProcAddress_v2(const char *symbol, P *at, int version, uint64_t flags, int *status) {
  *at = 0;
  if (!strcmp(symbol, "cuGetProcAddress")) { *at = (P)cuGetProcAddress_v2; if (status) *status = 0; return 0; } /* bindings of CUDA 12 ask for it by itself */
  BEFORE(cuStreamGetCaptureInfo, capture_before_12_3) BEFORE(cuGraphAddNode, node_before_12_3) BEFORE(cuStreamUpdateCaptureDependencies, update_before_12_3)
  if (version <= 13000) {
    KNOWN(cuDriverGetVersion) KNOWN(cuCtxGetCurrent) KNOWN(cuModuleLoadData) KNOWN(cuModuleGetFunction) KNOWN(cuFuncLoad) KNOWN(cuLaunchKernel)
    KNOWN(cuStreamGetCaptureInfo) KNOWN(cuGraphConditionalHandleCreate) KNOWN(cuGraphAddNode) KNOWN(cuStreamUpdateCaptureDependencies)
    KNOWN(cuStreamBeginCaptureToGraph) KNOWN(cuStreamEndCapture) KNOWN(cuGraphGetNodes) KNOWN(cuGraphNodeGetType) KNOWN(cuFuncGetParamInfo)
    KNOWN(cuStreamCreate) KNOWN(cuGraphLaunch) KNOWN(cuGraphKernelNodeGetParams) KNOWN(cuGraphExecKernelNodeSetParams)
  }
  if (status) *status = 1;
  return 500;
}
int cuGetProcAddress(const char *s, P *at, int version, uint64_t flags) { return cuGetProcAddress_v2(s, at, version, flags, 0); }
