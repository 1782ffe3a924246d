"""What the package found, as pictures and pages for people."""
