"""Samples in the order in which coroutines get them from threads."""

import asyncio

import tiny


async def main():
    order = []

    async def load(number):
        await asyncio.get_running_loop().run_in_executor(None, tiny.work, 40000 + 3000 * (number % 7))
        order.append(number)

    await asyncio.gather(*(load(number) for number in range(200)))
    return order


tiny.train(asyncio.run(main()), steps=200)
