"""What is shown of traces while they are made and kept: ``artifacts`` on the console, ``notebook`` cells."""
