"""What runs of scenarios are reported as: JUnit for CI, JSON for programs, one HTML page for people."""
