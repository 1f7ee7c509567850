"""``python -m labctl``."""

from labctl.cli import main

if __name__ == "__main__":
    main()
