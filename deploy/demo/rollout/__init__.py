"""`make demo-rollout`: a good version goes out in rings, and a damaged one is stopped in its first ring."""
