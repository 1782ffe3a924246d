"""What the troubleshooting page says by hand: the names of the topics, and hints.

A hint stands below every sentence that holds its key, written as the page shows the sentence.
"""

# Packages in the order in which a newcomer meets them; "" is what lies beside the packages.
TOPICS = {
    "images": "Photos and boxes",
    "nn": "Backbones",
    "models": "Models and their files",
    "weights": "The models in the box",
    "": "Downloads and writing files",
    "describe": "Describing photos",
    "search": "Indices and searching",
    "web": "The web app",
    "evaluation": "Evaluation",
    "datasets": "Data sets and labels",
    "show": "Pictures",
    "demo": "Demo",
    "training": "Training",
    "losses": "Losses",
    "doctor": "The doctor",
    "cli": "Options that do not go together",
}

HINTS = {
    "is damaged or cut short (": "A download or a copy broke off. `solar extract` and `solar index "
    "build` go on without such photos and list them at the end.",
    "is HEIC: pip install": "It comes with solar where there is a wheel for the machine.",
    "is a camera's RAW file": "It holds what the sensor saw, which every program develops "
    "differently. The camera's own program exports JPEG, often for many files at once.",
    "pixels are left": "A photo must have 8 pixels on its shorter side after it was reduced: raise "
    "`--size` for very long ones, or choose a larger box.",
    "is an address: download": "solar reads files and never fetches photos itself.",
    "claims … x … pixels": "A small file may claim a huge picture to fill the memory of whoever "
    "opens it.",
    "There is no photo …: check": "Paths are relative to where the command runs. A query may also "
    "be the path of an indexed photo, as `solar search` prints it.",
    "lies outside the photo": "Boxes are in pixels of the upright photo, as viewers show it.",
    "Could not download": "Fetch the file on another machine and put it where the sentence says, "
    "or name a mirror: `SOLAR_MIRRORS=https://host/folder`. `SOLAR_OFFLINE=1` forbids downloads.",
    "can only be downloaded with a browser": "See [the network](models.md#solar-r101-gldv2). "
    "`SOLAR_MIRRORS` may name a folder of your own server that has the file.",
    "delete it to download it again": "The file is not the published one. If a proxy answers with "
    "a page of its own, its size says so.",
    "There is no model called": "Or give a file: `./mine.safetensors`.",
    "which no checkpoint needs": "A checkpoint can carry a program. This one does, or was saved "
    "together with objects; save its `state_dict` alone.",
    "was made with another model": "Descriptors of two models cannot be compared. `solar index "
    "info INDEX` says which model made it.",
    "describes photos, not words": "See [search with words](backbones.md#search-with-words).",
    "has the image side of its model alone": "See [search with words]"
    "(backbones.md#search-with-words).",
    "is an index already": "`solar index add INDEX FOLDER --new` adds what is new. To begin anew, "
    "delete the folder.",
    "was never finished": "What was described before the stop is kept and used.",
    "Another process is writing to": "Searching goes on meanwhile. A process that was killed holds "
    "nothing back.",
    "Another run is writing": "A process that was killed holds nothing back.",
    "this index compares local features": "See [aggregated local features](asmk.md).",
    "No Milvus server answers": "See [searching with Milvus](cluster-search.md).",
    "Cannot listen on": "Another program has the port; often it is an older `solar serve`.",
    "anybody could add photos": "See [the web app](web.md).",
    "names folders that you have not": "An index that somebody sent could name any folder of this "
    "machine. Yours is asked about once if it was moved, made by another user, or before solar "
    "kept note of it. See [the web app](web.md).",
    "is in no folder that would say what it shows": "See [your own labels](own-labels.md).",
    "is not plain data and was not loaded": "Pickles can run programs. Only numbers, texts, lists "
    "and dicts are read from them.",
    "the ground truth is for another database": "`gnd_roxford5k.pkl` and `gnd_rparis6k.pkl` were "
    "mixed up, or photos are missing from a list of one's own.",
    "not 1: divide every row": "Descriptors are compared by their dot product, which is a "
    "similarity for rows of length one only.",
    "Process … of this machine needs a GPU": "See [training](training.md).",
    "but a batch needs": "A photo is a query if another one of its landmark is known to show the "
    "same. Add photos, or set `batch=8`.",
    "already holds a run": "`--resume` also works where a run has not begun.",
    "so training has stopped": "See [small collections](training.md#small-collections).",
    "there is no setting": "Every setting is in `recipe.yaml` of any run's folder.",
    "This machine has no CUDA device": "`python -c 'import torch; print(torch.version.cuda)'` "
    "prints None where torch was installed without CUDA.",
}
