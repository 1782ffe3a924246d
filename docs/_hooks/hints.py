"""What the troubleshooting page says by hand: the names of the topics, and hints.

A hint stands below every sentence that holds its key, written as the page shows the sentence.
"""

# Packages in the order in which a newcomer meets them; "" is what lies beside the packages.
TOPICS = {
    "images": "Photos and boxes",
    "nn": "Backbones",
    "models": "Models and their files",
    "weights": "The bundled models",
    "": "Downloads and writing files",
    "describe": "Computing embeddings",
    "storage": "What an index holds",
    "index": "Indexes: building, updating, exporting",
    "ranking": "Searching and re-ranking",
    "local": "Local features",
    "matching": "Matching two photos",
    "asmk": "Indexes of local features",
    "sfm": "Pairs of photos and COLMAP",
    "albums": "Albums",
    "near_duplicates": "Duplicates",
    "web": "The web app",
    "evaluation": "Evaluation",
    "datasets": "Data sets and labels",
    "show": "Pictures",
    "demo": "Demo",
    "training": "Training",
    "reproduction": "Reproducing the paper",
    "losses": "Losses",
    "doctor": "The doctor",
    "cli": "Options that do not go together",
}

HINTS = {
    "is damaged or cut short (": "A download or a copy was interrupted. "
    "`solar index build` skips such photos and lists them at the end.",
    "is HEIC: pip install": "Support for HEIC is installed with solar if there is a wheel for "
    "your system.",
    "is a camera's RAW file": "solar reads the JPEG preview in a RAW file, if there is one of "
    "512 pixels or more. The camera's software exports JPEG, often for many files at once.",
    "pixels to describe": "A photo must have 8 pixels on its shorter side after downscaling: raise "
    "`--size` for very long photos, or choose a larger box.",
    "is an address: download": "solar reads files and never fetches photos itself.",
    "claims … x … pixels": "A small file may claim to be a huge picture, to fill the memory of the "
    "program that opens it.",
    "There is no photo …: check": "Paths are relative to the current folder. A query may also "
    "be the path of an indexed photo, as `solar search` prints it.",
    "lies outside the photo": "Boxes are in pixels of the upright photo, as image viewers show it.",
    "Could not download": "Fetch the file on another machine and put it where the sentence says, "
    "or name a mirror: `SOLAR_MIRRORS=https://host/folder`. `SOLAR_OFFLINE=1` forbids downloads.",
    "can only be downloaded with a browser": "See [the network](models.md#solar-r101-gldv2). "
    "`SOLAR_MIRRORS` may name a folder on your own server that has the file.",
    "delete it to download it again": "The file is not the published one. A very small file is "
    "often the error page of a proxy.",
    "There is no model called": "You can also give a file: `./mine.safetensors`.",
    "which no checkpoint needs": "A checkpoint can contain code. This one does, or it was saved "
    "together with Python objects; save only its `state_dict`.",
    "was made with another model": "Embeddings of different models cannot be compared. "
    "`solar index info INDEX` names the model.",
    "has no text encoder: for text search": "See [text search]"
    "(backbones.md#text-search-with-clip-and-siglip).",
    "contains only the image encoder": "See [text search]"
    "(backbones.md#text-search-with-clip-and-siglip).",
    "is an index already": "To start over, delete the folder.",
    "was never finished": "Embeddings computed before the interruption are kept and used.",
    "Another process is writing to": "You can search meanwhile. A killed process leaves no lock "
    "behind.",
    "Another run is adding photos": "A killed process leaves no lock behind.",
    "this index holds local features": "See [aggregated local features](asmk.md).",
    "No Milvus server answers": "See [searching with Milvus](milvus.md).",
    "Cannot listen on": "Another program uses the port, often an older `solar serve`.",
    "anybody could add photos": "See [the web app](web.md).",
    "names folders that you have not": "An index from somebody else could name any folder on this "
    "machine. For your own index, you must confirm once if it was moved, built by another user, "
    "or built before solar recorded this. See [the web app](web.md).",
    "has no folder whose name could be its label": "See [your own labels](evaluation.md).",
    "is not plain data and was not loaded": "Pickle files can run code. Only numbers, strings, "
    "lists and dicts are read from them.",
    "the ground truth is for another database": "`gnd_roxford5k.pkl` and `gnd_rparis6k.pkl` were "
    "mixed up, or your own list lacks photos.",
    "not 1: divide every row": "Embeddings are compared by their dot product, which is the cosine "
    "similarity only for rows of length one.",
    "Process … of this machine needs a GPU": "See [training](training.md).",
    "but a batch needs": "A photo can be a query if another photo of its landmark is known to show "
    "the same thing. Add photos, or set `batch=8`.",
    "already holds a run": "`--resume` also works if the run has not started yet.",
    "so training has stopped": "See [small collections]"
    "(training.md#small-collections-and-hard-negatives).",
    "there is no setting": "Every setting is in `recipe.yaml` of any run's folder.",
    "This machine has no CUDA device": "`python -c 'import torch; print(torch.version.cuda)'` "
    "prints None if torch was installed without CUDA.",
}
