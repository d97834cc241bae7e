#include "core/train/micro_batches.h"

#include <limits>
#include <utility>

#include "core/base/check.h"

namespace lockstep {
namespace {

// values[i], or `otherwise` where the optional array is empty.
float At(const std::vector<float>& values, int64_t i, float otherwise) {
  return values.empty() ? otherwise : values[i];
}

void AppendDatum(const Datum& datum, int64_t page_size, int32_t* next_page,
                 TrainingMicroBatch* micro_batch) {
  const int64_t length = datum.length();
  std::vector<int32_t> pages;
  for (int64_t begin = 0; begin < length; begin += page_size) pages.push_back((*next_page)++);
  micro_batch->batch.Append(datum.model_input.data(), length, 0, std::move(pages));
  micro_batch->datum_begins.push_back(micro_batch->batch.row_count());

  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  TokenLossInputs& in = micro_batch->loss_inputs;
  for (int64_t i = 0; i < length; ++i) {
    const float mask = At(datum.mask, i, 1);
    in.temperature.push_back(datum.sampling.temperature);
    in.target.push_back(mask == 0 ? -1 : datum.target_tokens[i]);
    in.mask.push_back(mask);
    in.weight.push_back(At(datum.weights, i, 1));
    in.old_logprob.push_back(At(datum.logprobs, i, kNaN));
    in.advantage.push_back(At(datum.advantages, i, 0));
  }
}

}  // namespace

std::vector<TrainingMicroBatch> MakeMicroBatches(absl::Span<const Datum> data,
                                                 int64_t micro_batch_size, int64_t page_size) {
  LOCKSTEP_CHECK_GE(micro_batch_size, 1);
  std::vector<TrainingMicroBatch> micro_batches;
  for (size_t begin = 0; begin < data.size();) {
    size_t end = begin;
    int64_t rows = 0;
    while (end < data.size() && static_cast<int64_t>(end - begin) < micro_batch_size &&
           (end == begin || rows + data[end].length() <= kMicroBatchRowsMax)) {
      rows += data[end++].length();
    }

    TrainingMicroBatch& micro_batch = micro_batches.emplace_back();
    micro_batch.datum_begins.push_back(0);
    micro_batch.loss_inputs.Reserve(rows);
    int32_t next_page = 0;
    for (; begin < end; ++begin) AppendDatum(data[begin], page_size, &next_page, &micro_batch);
  }
  return micro_batches;
}

}  // namespace lockstep
