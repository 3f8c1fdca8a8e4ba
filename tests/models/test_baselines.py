"""The baselines of the SCAN tables: what is tested of every model with attention layers, and what is theirs alone."""

from __future__ import annotations

import pytest
from test_fairseq import test_left_and_right_padding_are_one, test_left_padded_targets  # noqa: F401
from test_generation import (  # noqa: F401
    test_beam_search_with_and_without_cache,
    test_cache_gives_the_logits_of_the_whole_prefix,
    test_decoder_mask,
    test_decoder_sees_no_later_token,
    test_eager_equals_sdpa,
    test_embeddings_instead_of_ids,
    test_encoder_output_instead_of_source,
    test_greedy_stops_each_row_at_its_own_end,
    test_input_that_is_missing_or_double,
    test_no_cache_unless_asked,
    test_nothing_is_recorded_unless_asked,
    test_rows_do_not_depend_on_their_batch,
    test_source_ids_start_at_the_offset,
    test_source_padding_changes_nothing,
    test_static_cache,
)
from test_training import (  # noqa: F401
    test_autocast,
    test_dropout_acts_in_training_only,
    test_labels_make_the_decoder_input,
    test_loss_is_the_mean_over_all_labels_of_the_batch,
    test_low_precision_is_close,
    test_rows_without_a_real_word_are_finite,
    test_two_halves_with_the_number_of_items_are_the_batch,
)
from tiny import BASELINES


@pytest.fixture(params=BASELINES)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["eager", "sdpa"])
def implementation(request: pytest.FixtureRequest) -> str:
    return request.param
