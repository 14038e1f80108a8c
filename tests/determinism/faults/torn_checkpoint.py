"""A thread copies the weights into a checkpoint while they are being updated."""

import threading

import tiny

weights = [0] * 2000
copies = []
done = threading.Event()


def copy():
    while not done.is_set():
        copies.append([weights[index] for index in range(len(weights))])
        done.wait(0.0005)


thread = threading.Thread(target=copy)
thread.start()
for step in range(300):
    for index in range(len(weights)):
        weights[index] = step
done.set()
thread.join()
tiny.write("checkpoint.json", {"weights": copies[len(copies) // 2]})
tiny.train(range(64))
