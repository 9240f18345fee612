"""The webhook over HTTPS, and what operators look at over HTTP: Flask on gunicorn."""
