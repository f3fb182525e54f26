"""RSML documents for tests, and writers that validate every strict file against the schema."""

from __future__ import annotations

from pathlib import Path

from lxml import etree

from treeformer import Skeleton
from treeformer.formats.rsml import reader as rsml
from treeformer.formats.rsml.metadata import Dialect

# The metadata of a file as read.
METADATA = {
    "version": "1",
    "unit": "mm",
    "resolution": "11.8",
    "last-modified": "2024-06-20T18:03:01",
    "software": "RootNav",
    "user": "someone",
    "file-key": "plate 7",
    "empty_plants": 0,
}
_SCHEMA_TEXT = Path(__file__).with_name("rsml.xsd").read_text(encoding="utf-8")
SCHEMA = etree.XMLSchema(etree.fromstring(_SCHEMA_TEXT.encode()))
# For files with preserved elements: as the schema, but any element may stand in <geometry> and <annotations>.
LENIENT_SCHEMA = etree.XMLSchema(
    etree.fromstring(
        _SCHEMA_TEXT.replace('processContents="strict"', 'processContents="skip"')
        .replace('type="annotations"', 'type="anything"')
        .encode()
    )
)


def written(skeleton: Skeleton, path: Path) -> Skeleton:
    """Write a valid file, from which nothing is left out, validate it against the schema, and read it again."""
    assert rsml.write_valid(skeleton, path) == ()
    SCHEMA.assertValid(etree.parse(path))
    return rsml.read(path)


def preserved(skeleton: Skeleton, path: Path, dialect: Dialect = "strict") -> Skeleton:
    """Write a file with all unknown elements, validate everything but these if it is strict, and read it again."""
    rsml.write(skeleton, path, dialect=dialect)
    if dialect == "strict":
        LENIENT_SCHEMA.assertValid(etree.parse(path))
    return rsml.read(path)


def lines_in_file(path: Path) -> list[list[tuple[float, float]]]:
    """Return the lines of all roots in document order, read by another parser."""
    lines = []
    for root in etree.parse(path).iter("root"):
        shape = root.find("geometry/polyline")
        shape = root.find("geometry/rootnavspline") if shape is None else shape
        if shape is not None:
            lines.append([(float(point.get("x")), float(point.get("y"))) for point in shape])
    return lines


def axis_lines(skeleton: Skeleton) -> list[list[tuple[float, float]]]:
    return [[tuple(skeleton.nodes[node]) for node in axis.nodes] for axis in skeleton.axes]


HEAD = """<version>1</version><unit>pixel</unit><resolution>1</resolution><software>s</software><user>u</user>
<last-modified>2024-06-20T18:03:01</last-modified><file-key>k</file-key>"""


def document(scene: str, metadata: str = HEAD) -> str:
    return f"<rsml><metadata>{metadata}</metadata><scene>{scene}</scene></rsml>"


def root(*points: tuple[object, object], inner: str = "", **names: object) -> str:
    attributes = "".join(f' {name}="{value}"' for name, value in names.items())
    line = "".join(f'<point x="{x}" y="{y}"/>' for x, y in points)
    return f"<root{attributes}><geometry><polyline>{line}</polyline></geometry>{inner}</root>"


LIBERAL = """<?xml version='1.0' encoding='UTF-8'?>
<!-- a comment before the root element -->
<rsml xmlns:po='http://www.plantontology.org/xml-dtd/po.dtd' made-by='someone'>
  <metadata>
    <version> </version><unit>Inches</unit><resolution>300,5</resolution>
    <last-modified>26/06/2024 17:51:29</last-modified><software>RootNav</software>
    <user>me</user><file-key>key</file-key><file-key>second</file-key>
    <property-definitions>
      <property-definition><label>length</label><type>float</type><unit>cm</unit></property-definition>
    </property-definitions>
    <time-sequence><label>run 7</label><index>3</index><unified>TRUE</unified></time-sequence>
    <image><label>plate 7.tif</label><captured>some day</captured><sha256>ab12</sha256></image>
    <camera model="X"><lens>50</lens></camera>
  </metadata>
  <scene>
    <plant ID="p" label="Col-0 &lt;wild&gt;" sown="May">
      <properties><species>Arabidopsis</species><trait unit="cm">4</trait></properties>
      <annotations>free text</annotations>
      <root Id="a" label="tap" po:accession="PO:0020127">
        <properties><complete>true</complete><complete>false</complete></properties>
        <geometry>
          <rootnavspline tension="0.5"><point x="0" y="0"/><point x="0" y="20"/></rootnavspline>
        </geometry>
        <functions>
          <function name="diameter" domain="polyline"><sample value="4"/><sample>2.5</sample></function>
          <function name="confidence" domain="length" origin="tip"><sample position="3" value="1e-3"/></function>
          <function name="odd" domain="polyline"><sample value="NaN"/></function>
          <function name="noted" domain="uniform" by="me"><sample value="1"/></function>
          <function name="empty" domain="uniform"/>
        </functions>
        <annotations><annotation name="n"><point x="1" y="1"/><value>v</value></annotation></annotations>
        <root id="b" poaccession="PO:0020121">
          <geometry>
            <polyline><point><x>0</x><y>20</y></point><point z="1.5" y="3e1" x="7,5"/></polyline>
            <rootnavspline><point x="9" y="9"/></rootnavspline>
          </geometry>
        </root>
        <root ACCESSION="x" color="red"><geometry><polyline>
          <point x="0" y="10" t="1"/><point x="-4.25" y="10" t="2"/></polyline></geometry></root>
        <marker at="3"/>
      </root>
    </plant>
    <plant id="dead"/>
    <legend/>
  </scene>
</rsml>
"""
