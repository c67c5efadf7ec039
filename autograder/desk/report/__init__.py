"""What a class did and believes, from the records that grading kept."""
