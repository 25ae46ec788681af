# SPDX-License-Identifier: Apache-2.0
"""The Dynamo backends `sendnn`, and what stands behind the import package `torch_sendnn`.

Programs that were written before the card was a PyTorch device (foundation-model-stack, vLLM's
plugin sendnn-inference, aiu-fms-testing-utils) keep their tensors on the CPU and call
`torch.compile(model, backend="sendnn")`. See docs/serving.md.
"""
