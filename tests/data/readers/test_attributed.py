"""What other programs than networkx put into GraphML."""

import pytest

from meanmax.data.readers import check, read_own

from . import graphs

pytestmark = pytest.mark.extra  # tables, GraphML and JSON are read with packages of an extra

YED = """<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/xml/graphml">
<key for="port" id="d0" yfiles.type="portgraphics"/>
<key attr.name="url" attr.type="string" for="node" id="d4"/>
<key attr.name="description" attr.type="string" for="node" id="d5"/>
<key for="node" id="d6" yfiles.type="nodegraphics"/>
<key attr.name="height" attr.type="double" for="node" id="d7"/>
<key for="edge" id="d10" yfiles.type="edgegraphics"/>
<graph edgedefault="directed" id="G">
<node id="n0"><data key="d5" xml:space="preserve"/>
<data key="d6"><y:ShapeNode><y:Geometry height="30.0"/><y:NodeLabel>Ann</y:NodeLabel>
</y:ShapeNode></data><data key="d7">1.5</data></node>
<node id="n1"><data key="d5"/><data key="d6"><y:ShapeNode><y:NodeLabel>Bob</y:NodeLabel>
</y:ShapeNode></data><data key="d7">2.5</data></node>
<edge id="e0" source="n0" target="n1"><data key="d10"><y:PolyLineEdge/></data></edge>
</graph></graphml>"""

GEPHI = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key attr.name="label" attr.type="string" for="node" id="label"/>
<key attr.name="size" attr.type="float" for="node" id="size"/>
<key attr.name="weight" attr.type="double" for="edge" id="weight"/>
<graph edgedefault="undirected">
{}<edge id="0" source="0" target="1"><data key="weight">2.0</data></edge>
</graph></graphml>"""


def test_drawings_of_yed_are_left_alone(tmp_path):
    path = graphs.write(tmp_path, {"a.graphml": YED}) / "a.graphml"
    dataset = read_own(path)
    assert dataset.x.tolist() == [[1.5], [2.5]]
    assert dataset.edge_index.tolist() == [[1, 0], [0, 1]]
    said = " ".join(problem.message for problem in check(path))
    assert "keys without attr.name (d0, d10, d6) are not used" in said
    assert "'description' of all nodes empty, not used" in said


def test_names_that_gephi_displays_are_no_classes(tmp_path):
    node = '<node id="{0}"><data key="label">Name {0}</data><data key="size">{0}</data></node>\n'
    for count, severity in ((20, "note"), (21, "error")):
        text = GEPHI.format("".join(node.format(number) for number in range(count)))
        path = graphs.write(tmp_path, {"a.graphml": text}) / "a.graphml"
        found = [problem for problem in check(path) if "one node only" in problem.message]
        assert [problem.severity for problem in found] == [severity]
        assert "what a program displays" in found[0].advice
