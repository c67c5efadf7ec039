"""What the gradients should have been: cloned saves, finite differences, replay."""
