"""What every part uses: units and schemas, errors and losses, manifests, and files that are written whole."""
