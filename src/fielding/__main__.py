"""`python -m fielding` is the command `fielding`."""

from fielding.cli import main

if __name__ == "__main__":
    main()
