"""Time series: one plate over many dates, with one identity per plant and axis.

>>> from treeformer.skeleton import Skeleton
>>> young, old = Skeleton([(9, 9), (9, 40)], [(0, 1)], root=0), Skeleton([(9, 9), (9, 90)], [(0, 1)], root=0)
>>> series = Series([(1.0, young), (3.0, old)])
>>> [axis.id for skeleton in series.skeletons for axis in skeleton.axes]
['1.1', '1.1']
"""

from treeformer.timeseries.series import AxisTrack, Series

__all__ = ["AxisTrack", "Series"]
