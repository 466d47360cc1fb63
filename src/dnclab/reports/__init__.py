"""Figures and pages from run folders; imports no model."""
