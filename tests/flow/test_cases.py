"""Reports of users of other trainers, and files from them, through the real program: each case is made here, and what is right is
compared. A class is a family of cases."""
from flow import FlowTest, main


class Archives(FlowTest):
    """What lies in an archive or a shard is read as the folder that unpacking would give."""


class Listings(FlowTest):
    """What is listed, what is left out, and what an index may be trusted with."""


class Labels(FlowTest):
    """What labels mean is decided once, over all ranks, parts and both sets."""


class Pixels(FlowTest):
    """The same picture everywhere: orientation and depth."""


class Bitmaps(FlowTest):
    """Bitmaps have Pillow's pixels, the same ones every time; sizes fit in memory."""


class Weights(FlowTest):
    """Weights that other programs wrote."""


class Answers(FlowTest):
    """Reports speak of the model that was saved."""


class Nights(FlowTest):
    """Nothing is lost at the end of a run, and nothing outside can hold one."""


class Ranks(FlowTest):
    """Ranks, hosts and resumed runs work on the same bytes."""


if __name__ == "__main__":
    main()
