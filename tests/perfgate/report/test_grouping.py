from hypothesis import given
from hypothesis import strategies as st

from perfgate.caseid import format_case_id
from perfgate.report.grouping import grouped, split_case_id


def groups(*case_ids):
    return grouped(case_ids, lambda case_id: case_id)


def test_a_heading_says_what_all_cases_of_a_benchmark_share():
    [group] = groups("k.mm[chip=a,dtype=f,m=1]", "k.mm[chip=b,dtype=f,m=1]")

    assert group.benchmark == "k.mm"
    assert group.shared == ("dtype=f", "m=1")
    assert group.names == ("chip",)
    assert [group.label(member) for member in group.members] == ["chip=a", "chip=b"]


def test_a_case_without_one_of_the_parameters_has_no_value_there():
    [group] = groups("k[m=1]", "k[m=1,n=2]", "k")

    assert group.names == ("m", "n")
    assert [member.values for member in group.members] == [("1", ""), ("1", "2"), ("", "")]


def test_benchmarks_without_parameters_share_a_group_at_the_first_of_them():
    first, second = groups("a", "b[m=1]", "c")

    assert (first.benchmark, first.names) == ("", ("case",))
    assert [member.item for member in first.members] == ["a", "c"]
    assert (second.benchmark, second.shared, second.names) == ("b", ("m=1",), ())


def test_ids_of_other_tools_stay_whole():
    for case_id in ("test_x.py::test[1-2]", "a[b", "a[x]", "a[n=2,m=1]", "a[m=%6d]"):
        assert split_case_id(case_id) == (case_id, {})


@given(
    st.lists(
        st.dictionaries(st.text("mn,=[]% ", min_size=1), st.text("ab1,=[]%\n"), max_size=3),
        min_size=1,
        max_size=5,
        unique_by=lambda parameters: format_case_id("k.x", parameters),
    )
)
def test_heading_and_label_together_are_the_whole_id(parameters):
    case_ids = [format_case_id("k.x", each) for each in parameters]

    for group in groups(*case_ids):
        for member in group.members:
            told = {f"{n}={v}" for n, v in zip(group.names, member.values, strict=True)}
            inside = member.item.removesuffix("]").partition("[")[2]
            wanted = set(inside.split(",")) if inside else set()
            assert not group.benchmark or wanted <= told | set(group.shared)
