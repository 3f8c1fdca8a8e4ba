"""BibTeX of the papers that more than one benchmark is from."""

from __future__ import annotations

BERGEN = """@inproceedings{bergen2021edge,
  title = {Systematic Generalization with Edge Transformers},
  author = {Bergen, Leon and O'Donnell, Timothy J. and Bahdanau, Dzmitry},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2021}
}"""
CSORDAS = """@inproceedings{csordas2021devil,
  title = {The Devil is in the Detail: Simple Tricks Improve Systematic Generalization of Transformers},
  author = {Csord{\\'a}s, R{\\'o}bert and Irie, Kazuki and Schmidhuber, J{\\"u}rgen},
  booktitle = {Conference on Empirical Methods in Natural Language Processing},
  year = {2021}
}"""
KEYSERS = """@inproceedings{keysers2020measuring,
  title = {Measuring Compositional Generalization: A Comprehensive Method on Realistic Data},
  author = {Keysers, Daniel and Sch{\\"a}rli, Nathanael and Scales, Nathan and Buisman, Hylke and Furrer, Daniel and
            Kashubin, Sergii and Momchev, Nikola and Sinopalnikov, Danila and Stafiniak, Lukasz and Tihon, Tibor and
            Tsarkov, Dmitry and Wang, Xiao and van Zee, Marc and Bousquet, Olivier},
  booktitle = {International Conference on Learning Representations},
  year = {2020}
}"""
QIU = """@inproceedings{qiu2022improving,
  title = {Improving Compositional Generalization with Latent Structure and Data Augmentation},
  author = {Qiu, Linlu and Shaw, Peter and Pasupat, Panupong and Nowak, Pawel Krzysztof and Linzen, Tal and Sha, Fei and
            Toutanova, Kristina},
  booktitle = {North American Chapter of the Association for Computational Linguistics},
  year = {2022}
}"""
