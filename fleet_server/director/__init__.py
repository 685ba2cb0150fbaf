"""The director: signs what a rollout decided for each device, and writes down what a device should see."""
