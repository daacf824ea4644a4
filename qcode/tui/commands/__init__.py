"""What a person can invoke in the app. `command` says what one is, `table` lists them all."""
