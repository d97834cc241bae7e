#ifndef LOCKSTEP_KERNELS_CPU_CPU_KERNELS_INL_H_
#define LOCKSTEP_KERNELS_CPU_CPU_KERNELS_INL_H_

// Bodies of CpuKernels, for the files that instantiate it.

#include "kernels/cpu/attention_inl.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/ends_inl.h"
#include "kernels/cpu/products_inl.h"
#include "kernels/cpu/rows_inl.h"

#endif  // LOCKSTEP_KERNELS_CPU_CPU_KERNELS_INL_H_
