"""The command line: `sepu`."""
