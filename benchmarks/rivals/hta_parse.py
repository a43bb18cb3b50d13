"""Read a trace of torch.profiler with the parser of Holistic Trace Analysis."""

import sys

from hta.common.trace_parser import parse_trace_dataframe
from hta.configs.parser_config import ParserConfig

parse_trace_dataframe(sys.argv[1], ParserConfig.get_default_cfg())
