"""Watches the SSH packets of this process, and cuts a connection at one of them."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass, field

import paramiko


def changes(command):
    """Tell whether a command is made to change a GPU."""
    words = command.split()
    return "nvidia-smi" in command and bool({"-cgi", "-dgi", "-dci", "-cci", "-mig"} & set(words))


@dataclass
class Watch:
    """Counts packets per connection in the order in which connections are made. `cut` = (connection, packet, side).

    A packet is counted when it is sent or received; side "before" cuts instead of it, "after" once it has passed.
    """

    cut: tuple[int, int, str] | None = None
    packets: list[int] = field(default_factory=list)
    commands: list[tuple[int, str]] = field(default_factory=list)
    """Which connection ran which command."""
    sent_at: dict[int, list[int]] = field(default_factory=dict)
    """Which packets of a connection were commands that change something."""
    times: list[float] = field(default_factory=list)
    """When each command was sent."""
    struck: int | None = None
    """How many commands had been sent when the connection was cut."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    _channels: dict[int, paramiko.Channel] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=dict)

    def install(self, monkeypatch):
        """Watch every paramiko connection of this process from now on."""
        packetizer, channel, watch = paramiko.packet.Packetizer, paramiko.Channel, self
        send, read, execute = packetizer.send_message, packetizer.read_message, channel.exec_command
        begin = packetizer.__init__

        def made(this, sock):
            begin(this, sock)
            with watch.lock:
                watch._numbers[id(this)] = len(watch.packets)
                watch.packets.append(0)

        def sending(this, data):
            return watch.passing(this, lambda: send(this, data))

        def reading(this):
            return watch.passing(this, lambda: read(this))

        def executing(this, command):
            number = watch._numbers[id(this.get_transport().packetizer)]
            watch.commands.append((number, command if isinstance(command, str) else command.decode()))
            watch._channels[number] = this
            watch.times.append(time.monotonic())
            if changes(watch.commands[-1][1]):
                watch.sent_at.setdefault(number, []).append(watch.packets[number])
            return execute(this, command)

        monkeypatch.setattr(packetizer, "__init__", made)
        monkeypatch.setattr(packetizer, "send_message", sending)
        monkeypatch.setattr(packetizer, "read_message", reading)
        monkeypatch.setattr(channel, "exec_command", executing)
        return self

    def passing(self, this, pass_on):
        with self.lock:
            number = self._numbers[id(this)]
            here = (number, self.packets[number])
            self.packets[number] += 1
        strike = self.cut is not None and self.struck is None and here == self.cut[:2]
        if strike and self.cut[2] == "before":
            self._strike(this)
        result = pass_on()
        if strike and self.cut[2] == "after":
            self._strike(this)
        return result

    def _strike(self, this):
        self.struck = len(self.commands)
        sock = this._Packetizer__socket
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def lost(self):
        """Whether a change was on its way when the connection was cut, and its exit status never came."""
        channel = self._channels.get(self.cut[0])
        sent = [command for number, command in self.commands[: self.struck] if number == self.cut[0]]
        return channel is not None and bool(sent) and changes(sent[-1]) and channel.exit_status == -1

    def changing(self):
        """The connections over which something was changed, with their number of packets."""
        return {number: self.packets[number] for number, command in self.commands if changes(command)}


class When:
    """Does something as soon as the lab's first fault has fired, in a thread of its own."""

    def __init__(self, lab, act, times=1):
        self.lab, self.act, self.times, self.done = lab, act, times, 0
        self.thread = threading.Thread(target=self.run)
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(0.03) and self.done < self.times:
            if len(self.lab.get("/lab/faults")["fired"]) > self.done:
                self.act()
                self.done += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def repeated(entries):
    """Instances that were made twice at one place without having been destroyed in between."""
    standing, twice = set(), []
    for entry in entries:
        detail = entry.get("detail", {})
        place = (entry["object"], detail.get("gpu"), detail.get("start"), detail.get("profile"))
        if "-cgi" in entry["call"]:
            twice += [place] if place in standing else []
            standing.add(place)
        elif "-dgi" in entry["call"] or "-mig" in entry["call"]:
            standing.clear()
    return twice
