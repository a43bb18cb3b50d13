"""Kernel names: demangling and base names, on cases worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbd_trace.sources import demangle as module
from tbd_trace.sources.demangle import can_demangle, demangle, is_mangled, short_name

identifiers = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True).filter(
    lambda name: "operator" not in name and not name.startswith("_Z")
)
arguments = st.lists(
    st.sampled_from(
        ["float*", "int const*", "ns::T<4, (a::b)1>", "void (*)(int)", "{lambda(int)#1}", "(4>(2))"]
    ),
    max_size=3,
).map(", ".join)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("volta_sgemm_128x64_tn", "volta_sgemm_128x64_tn"),
        ("VecAdd(int const*, int)", "VecAdd"),
        ("void ns::f<float, (K)1>(float*)", "f"),
        ("void (anonymous namespace)::softmax<float>(float*)", "softmax"),
        ("void <unnamed>::softmax<(int)4>(T *)", "softmax"),
        ("void a::g<b::h(int)::{lambda(int)#1}>(b::h(int)::{lambda(int)#1})", "g"),
        ("void a::g<b::h(int &)::[lambda(int) (instance 1)]>(int)", "g"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, 4>(P)", "kernel"),
        ("void run<(8>(4))>(int)", "run"),
        ("ns::Functor::operator()(float) const", "operator()"),
        ("outer(int)::{lambda(int)#2}::operator()(int) const", "operator()"),
        ("bool ns::operator< <float>(ns::A, ns::A)", "operator<"),
        ("void ns::operator<<(ns::S&, int)", "operator<<"),
        ("ns::P::operator->() const", "operator->"),
        ("void f<a, b>(int) [clone .constprop.0]", "f"),
        ("void ns::f()::g<int>(int) const", "g"),
        ("unsigned int f(int)", "f"),
        ("", ""),
        # What no library could demangle still has its name spelt out.
        ("_Z3fooPf", "foo"),
        ("_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE", "ncclDevKernel_SendRecv"),
        ("_ZN7cutlass6KernelINS_4gemm6kernel4GemmEEEvNT_6ParamsE", "Kernel"),
        ("_ZNK2ns1A3runEv", "run"),
    ],
)  # fmt: skip
def test_base_name(name: str, base: str) -> None:
    assert short_name(name) == base


@pytest.mark.slow
@given(identifiers, st.lists(identifiers, max_size=3), arguments, arguments, st.booleans())
def test_base_name_of_any_composed_signature(
    base: str, namespaces: list[str], template: str, parameters: str, returns: bool
) -> None:
    qualified = "::".join([*namespaces, base])
    suffix = f"<{template}>" if template else ""
    assert short_name(f"{'void ' if returns else ''}{qualified}{suffix}({parameters})") == base


@given(st.text(max_size=80))
def test_any_text_has_a_base_name(name: str) -> None:
    assert isinstance(short_name(name), str)


@pytest.mark.needs("demangler")
def test_demangles_and_keeps_what_is_not_mangled() -> None:
    assert demangle("_Z3fooPf") == "foo(float*)"
    assert demangle("foo") == "foo"
    broken = "_Z99nothing"
    assert demangle(broken) == broken
    assert is_mangled(broken)
    assert not is_mangled("foo(float*)")


def test_without_a_cpp_runtime_names_stay_mangled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_library", lambda: None)
    assert not can_demangle()
    assert demangle("_ZN2ns3fooEPf") == "_ZN2ns3fooEPf"
    assert short_name(demangle("_ZN2ns3fooEPf")) == "foo"


def test_a_library_that_cannot_load_is_not_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> object:
        raise OSError("libstdc++.so.6: cannot open shared object file")

    monkeypatch.setattr(module, "import_module", missing)
    assert module._library.__wrapped__() is None
