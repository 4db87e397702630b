"""So that ``python -m weir`` is the command ``weir``."""

from weir.cli.main import main

if __name__ == "__main__":
    main()
