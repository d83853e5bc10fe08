"""Clustered federated learning under data drift."""
