"""Decode network outputs into skeletons: duplicate suppression, spanning trees and post-processing."""
