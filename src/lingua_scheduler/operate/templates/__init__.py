"""Files that `lingua new` writes. They are programs that run as they are, so that the checks read them too."""
