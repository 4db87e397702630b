"""Spark's functions that no view can use, by what keeps them out. All others are left to Spark."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Functions of many rows.
AGGREGATES = _names(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg
    bool_and bool_or collect_list collect_set collect_union corr count count_if count_min_sketch covar_pop
    covar_samp every first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
    kll_sketch_agg_float kurtosis last last_value listagg max max_by mean measure median min min_by mode
    percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept
    regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some std stddev stddev_pop
    stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
    tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance
    """
)

# Functions of a row's neighbours.
WINDOW_FUNCTIONS = _names(
    """
    counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number session_window
    window
    """
)

# Functions that make several rows out of one.
GENERATORS = _names(
    """
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack variant_explode
    """
)

# Functions whose value depends on more than their arguments: dice, clocks, who asks, where the row happens to lie.
UNSTABLE = _names(
    """
    rand random randn randstr uniform uuid shuffle aes_encrypt reflect java_method try_reflect
    monotonically_increasing_id spark_partition_id input_file_name input_file_block_start
    input_file_block_length current_timestamp current_date current_time curdate now localtimestamp localtime
    current_user session_user user current_catalog current_database current_schema current_path current_timezone
    version
    """
)

# Text from text: what goes in comes out as part of it.
TEXT_FUNCTIONS = _names(
    """
    btrim char chr concat concat_ws format_string initcap lcase left lower lpad ltrim overlay printf repeat replace
    reverse right rpad rtrim substr substring substring_index translate trim ucase upper
    """
)

# Functions that take text as text and never read a date in it, whatever they give.
TEXT_TAKERS = _names(
    """
    array array_contains array_position ascii base64 bit_length char_length character_length charindex contains crc32
    decode elt encode endswith field find_in_set get_json_object hash instr len length levenshtein like ilike locate map
    md5 named_struct octet_length position regexp regexp_count regexp_extract regexp_extract_all regexp_instr
    regexp_like regexp_replace regexp_substr rlike sha sha1 sha2 soundex split split_part startswith struct to_binary
    to_json unhex xxhash64
    """
)

# The first of three arguments is a unit of time, not a column.
TAKE_A_UNIT = _names(
    """
    dateadd date_add datediff date_diff timestampadd timestampdiff
    """
)


def is_unstable(name: str, arguments: int) -> bool:
    """Whether a call may give another value for the same row tomorrow; ``unix_timestamp()`` is a clock."""
    return name in UNSTABLE or (name in ("unix_timestamp", "to_unix_timestamp") and arguments == 0)
