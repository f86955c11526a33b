"""What tests share: recordings that are made up, oracles, machines and programs to test with."""
