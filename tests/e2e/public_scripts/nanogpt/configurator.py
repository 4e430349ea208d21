"""Poor man's configurator: exec'd by train.py, it overrides its globals by files and --key=value."""

import sys
from ast import literal_eval

for arg in sys.argv[1:]:
    if "=" not in arg:
        print(f"Overriding config with {arg}:")
        with open(arg) as file:
            print(file.read())
        exec(open(arg).read())
    else:
        key, val = arg.removeprefix("--").split("=")
        if key not in globals():
            raise ValueError(f"Unknown config key: {key}")
        try:
            attempt = literal_eval(val)
        except (SyntaxError, ValueError):
            attempt = val
        assert type(attempt) is type(globals()[key])
        print(f"Overriding: {key} = {attempt}")
        globals()[key] = attempt
