"""The teacher's desk: hand-ins come from a learning platform, the class is looked at, and grades go back to the platform."""
