"""`python -m phsafe`, and the file to give to spark-submit."""

from phsafe.cli import main

if __name__ == "__main__":
    main()
