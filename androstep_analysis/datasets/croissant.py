"""Croissant metadata of a release, which describes files and columns for search engines and loaders.

The format is version 1.1 of mlcommons.org/croissant, as JSON-LD. Fields come from the schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from androstep_analysis.common import schema

VERSION = "http://mlcommons.org/croissant/1.1"

PARQUET = "application/x-parquet"

CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The JSON-LD context that the specification recommends (its appendix 1)."""

_TYPES = {
    "int64": "cr:Int64",
    "int32": "cr:Int32",
    "uint32": "cr:UInt32",
    "bool": "sc:Boolean",
    "string": "sc:Text",
    "enum": "sc:Text",
}


def metadata(about: Mapping[str, Any], tables: Sequence[schema.Table], files: Sequence[Mapping[str, Any]]) -> Any:
    """Return the contents of croissant.json.

    `about` has the properties of the dataset by their names in schema.org; None is left out. `files` are the Parquet
    files (path, bytes, sha256).
    """
    return {
        "@context": dict(CONTEXT),
        "@type": "sc:Dataset",
        "conformsTo": VERSION,
        **{name: value for name, value in about.items() if value is not None},
        "distribution": [*(_files(table) for table in tables), *(_file(file) for file in files)],
        "recordSet": [_records(table) for table in tables],
    }


def _files(table: schema.Table) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": f"{table.name}-files",
        "name": f"{table.name}-files",
        "description": f"The Parquet files of table {table.name}.",
        "encodingFormat": PARQUET,
        "includes": f"tables/{table.name}/*/*/*/*.parquet",
    }


def _file(file: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": file["path"],
        "name": PurePosixPath(file["path"]).name,
        "contentUrl": file["path"],
        "contentSize": f"{file['bytes']} B",
        "encodingFormat": PARQUET,
        "sha256": file["sha256"],
    }


def _records(table: schema.Table) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": table.name,
        "name": table.name,
        "description": table.description,
        "field": [_field(table, column) for column in table.columns],
    }


def _field(table: schema.Table, column: schema.Column) -> dict[str, Any]:
    is_list = column.dtype.startswith("list<")
    scalar = column.dtype[5:-1] if is_list else column.dtype
    unit = f" Unit: {column.unit}." if column.unit else ""
    values = f" One of {', '.join(column.values)}." if column.values else ""
    return {
        "@type": "cr:Field",
        "@id": f"{table.name}/{column.name}",
        "name": column.name,
        "description": f"{column.meaning}{unit}{values}",
        "dataType": _TYPES[scalar],
        **({"isArray": True, "arrayShape": "-1"} if is_list else {}),
        "source": {"fileSet": {"@id": f"{table.name}-files"}, "extract": {"column": column.name}},
    }
