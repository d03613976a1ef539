"""The pages for operators: one Falcon application, which only reads."""
