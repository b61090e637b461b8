"""What Ray's threads print does not get among results."""

import sys
import threading

from meanmax.study.runs.engine import ray_prints_to_stderr


def test_threads_of_ray_print_to_stderr_and_others_as_they_did(capsys):
    before = sys.stdout
    with ray_prints_to_stderr():
        print("result")
        for name in ("ray_listen_error_messages", "another"):
            thread = threading.Thread(target=print, args=(f"of {name}",), name=name)
            thread.start()
            thread.join()
        print("next", flush=True)
        assert sys.stdout.encoding == before.encoding
    assert sys.stdout is before
    out, err = capsys.readouterr()
    assert out == "result\nof another\nnext\n"
    assert err == "of ray_listen_error_messages\n"
