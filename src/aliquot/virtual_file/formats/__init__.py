"""The formats that aliquot reads. Each is a small class; users register their own."""
