"""One typed, frozen tree of settings: flags beat environment, environment beats file, file beats defaults."""

from lingua_scheduler.config.load import ConfigError, Loaded, load
from lingua_scheduler.config.settings import Settings

__all__ = ["ConfigError", "Loaded", "Settings", "load"]
