"""The operator's commands: each asks a running scheduler, over HTTP as anybody would."""
