"""Photographs of trees and vines outdoors."""
