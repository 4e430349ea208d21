"""The web page: its JSON API, who may use it, live updates, and the built files of `web/`."""
