-- Inputs of matrix products, convolutions and attentions. Only numbers, bools and known types are
-- kept: values are texts such as "[2, 2]", "True" and "0.".
SELECT
    e.event_id AS annotation_id,
    e.name AS operator,
    to_json(json_transform(e.dims, '[["BIGINT"]]'))::VARCHAR AS input_dims,
    to_json(list_transform(e.a."Input type", lambda x: CASE
        WHEN x = 'double' THEN 'float64' WHEN x = 'float' THEN 'float32'
        WHEN x = 'c10::Half' THEN 'float16' WHEN x = 'c10::BFloat16' THEN 'bfloat16'
        WHEN starts_with(x, 'c10::Float8') THEN 'float8'
        WHEN starts_with(x, 'c10::Float4') THEN 'float4'
    END))::VARCHAR AS input_types,
    to_json(list_transform(e.a."Concrete Inputs", lambda x: CASE
        WHEN regexp_full_match(x, '(?i)\[?\s*(-?\d+|true|false)?(\s*,\s*(-?\d+|true|false))*\s*\]?')
        THEN TRY_CAST(nullif(lower(x), '') AS JSON)
        ELSE to_json(TRY_CAST(nullif(x, '') AS DOUBLE))
    END))::VARCHAR AS input_values
FROM (
    SELECT *, json_transform(args, '{
        "Input type": ["VARCHAR"],
        "Concrete Inputs": ["VARCHAR"]}') AS a,
        coalesce(json_extract(args, '$."Input Dims"'), json_extract(args, '$."Input dims"')) AS dims
    FROM event
    WHERE kind = 'operator' AND contains(args, '"Input ')  -- few traces have inputs
        AND regexp_full_match(
            name, 'flash_?attn::_flash_attn_(forward|backward)|'
            || 'aten::(linear|_?\w*mm_?|_addmm_activation|_scaled_dot_product_\w+|'
            || '(cudnn_|miopen_(depthwise_)?|mkldnn_)?convolution\w*)')
) AS e
WHERE e.dims IS NOT NULL
