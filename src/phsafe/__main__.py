"""`python -m phsafe`, and the file to give to spark-submit."""

from phsafe.cli import program

if __name__ == "__main__":
    program()
