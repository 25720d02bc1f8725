"""Tests of the suite: declaring, finding, running and recording benchmarks."""
