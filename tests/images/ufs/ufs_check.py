"""What fsck would look at, in small: do an image's maps, counts and links agree?

Reads UFS1 by itself, so that a mistake in labctl's own notion of it cannot hide.
"""

import struct
from collections import Counter


def problems(image):
    """Words on everything that does not agree."""
    return _Check(image.read_bytes()).run()


class _Check:
    def __init__(self, data):
        self.data = data
        self.sb = 8192
        (self.sblkno, self.cblkno, self.iblkno, self.dblkno, self.offset, self.mask) = self.get(
            "<6i", self.sb + 8
        )
        self.ncg, self.bsize, self.fsize, self.frag = self.get("<4i", self.sb + 44)
        (self.csaddr,) = self.get("<i", self.sb + 152)
        self.ipg, self.fpg = self.get("<2i", self.sb + 184)
        (self.frags,) = self.get("<q", self.sb + 1080)
        self.used_frags = set()
        self.found = []

    def get(self, layout, place):
        return struct.unpack_from(layout, self.data, place)

    def start(self, group):
        return group * self.fpg + self.offset * (group & ~self.mask)

    def inode(self, number):
        group, index = divmod(number, self.ipg)
        return (self.start(group) + self.iblkno) * self.fsize + index * 128

    def expect(self, what, is_, should):
        if is_ != should:
            self.found.append(f"{what}: {is_}, not {should}")

    def run(self):
        totals = Counter()
        links = Counter({2: 1})  # the root's own ".." stands for its entry in a parent
        modes = {n: self.get("<H", self.inode(n))[0] for n in range(2, self.ncg * self.ipg)}
        live = {n: mode for n, mode in modes.items() if mode}
        for number, mode in live.items():
            blocks = self.blocks(number)
            if mode >> 12 == 4:
                links.subtract({number: 0})
                self.directory(number, blocks, live, links)
        links[2] -= 1
        for number in live:
            self.expect(
                f"links of inode {number}", self.get("<h", self.inode(number) + 2)[0], links[number]
            )
        for group in range(self.ncg):
            totals.update(self.group(group, live))
        names = ("ndir", "nbfree", "nifree", "nffree")
        self.expect("totals", self.get("<4q", self.sb + 1008), tuple(totals[n] for n in names))
        return self.found

    def blocks(self, number):
        """Byte offsets of a file's blocks; its fragments are noted as used."""
        place = self.inode(number)
        mode, size = self.get("<H6xQ", place)
        if mode >> 12 not in (4, 8, 10) or (mode >> 12 == 10 and size < 60):
            return []
        pointers = self.get("<15I", place + 40)
        count = -(-size // self.bsize)
        direct = list(pointers[:12][:count])
        for level, pointer in enumerate(pointers[12:], start=1):
            if pointer:
                direct += self.indirect(pointer, level)
        self.expect(f"blocks of inode {number}", len(direct), count)
        for index, pointer in enumerate(direct):
            last = index == count - 1 and count <= 12
            rest = size - index * self.bsize if last else self.bsize
            self.note(pointer, -(-rest // self.fsize))
        return [pointer * self.fsize for pointer in direct]

    def indirect(self, pointer, level):
        self.note(pointer, self.frag)
        within = [p for p in self.get(f"<{self.bsize // 4}I", pointer * self.fsize) if p]
        return within if level == 1 else [q for p in within for q in self.indirect(p, level - 1)]

    def note(self, pointer, frags):
        for frag in range(pointer, pointer + frags):
            if frag in self.used_frags:
                self.found.append(f"fragment {frag} is used twice")
            self.used_frags.add(frag)

    def directory(self, number, blocks, live, links):
        size = self.get("<Q", self.inode(number) + 8)[0]
        for at in range(0, size, 512):
            place = block = blocks[at // self.bsize] + at % self.bsize
            while place < block + 512:
                target, length, kind, _ = self.get("<IHBB", place)
                if target:
                    links[target] += 1
                    self.expect(f"type of inode {target}", kind, live.get(target, 0) >> 12)
                place += length

    def group(self, group, live):
        header = (self.start(group) + self.cblkno) * self.fsize
        counts = dict(
            zip(("ndir", "nbfree", "nifree", "nffree"), self.get("<4i", header + 24), strict=True)
        )
        iused, free = self.get("<2I", header + 92)
        used = [
            index
            for index in range(self.ipg)
            if self.data[header + iused + index // 8] >> index % 8 & 1
        ]
        begin = group * self.ipg
        should = [n - begin for n in range(begin, begin + self.ipg) if n in live or n < 2]
        self.expect(f"inode map of group {group}", used, should)
        self.expect(f"free inodes of group {group}", counts["nifree"], self.ipg - len(used))
        dirs = sum(live[begin + i] >> 12 == 4 for i in used if begin + i in live)
        self.expect(f"directories of group {group}", counts["ndir"], dirs)
        summary = self.get("<4i", self.csaddr * self.fsize + group * 16)
        self.expect(f"summary of group {group}", summary, tuple(counts.values()))
        self.fragments(group, header + free, counts)
        return counts

    def fragments(self, group, free_map, counts):
        first = group * self.fpg
        size = min(self.fpg, self.frags - first)
        free = [self.data[free_map + f // 8] >> f % 8 & 1 for f in range(size)]
        for frag in self.used_frags:
            if first <= frag < first + size and free[frag - first]:
                self.found.append(f"fragment {frag} is used and free")
        blocks = [free[f : f + self.frag] for f in range(0, size, self.frag)]
        whole = sum(all(block) and len(block) == self.frag for block in blocks)
        self.expect(f"free blocks of group {group}", counts["nbfree"], whole)
        self.expect(
            f"free fragments of group {group}", counts["nffree"], sum(free) - whole * self.frag
        )
